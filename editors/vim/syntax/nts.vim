" Vim syntax file
" Language: scripts of Netesto (docs/language.md)

if exists('b:current_syntax')
  finish
endif

syntax case match

" A quote opens at the start of a word or of a value only: 5" and don't are text.
syntax match ntsVariable /\$\%(\w\+\|{\w\+}\)/
syntax match ntsEscape /\$\$/
syntax match ntsEscape /\\["\\]/ contained
syntax region ntsString start=/\%([^[:space:]=,(:]\)\@1<!"/ skip=/\\./ end=/"/ oneline
      \ contains=ntsVariable,ntsEscape

" Numbers, with the units of sizes, times and rates.
syntax match ntsNumber /\%([[:alnum:]_.$-]\)\@1<!-\?\%(\d\+\%(\.\d\+\)\?\|\.\d\+\)
      \\%([KMGT]i\?\|k\|us\|ms\|min\|[smpB%]\|[kKmMgGt]\?bit\|[kmg]\?bps\)\?\%([[:alnum:]_.-]\)\@!/
syntax match ntsRange /\<\d\+\.\.-\?\d\+\%(,-\?\d\+\)\?/

syntax match ntsArgument /[[:alpha:]_][[:alnum:]_.]*\ze=\%(=\)\@!/
syntax match ntsOperator /==\|!=\|<=\|>=\|[<>]\|\%(^\|\s\)\@1<=\%(AND\|OR\|NOT\)\%(\s\|(\)\@=/
" Arithmetic is in SET_EXP and ASSERT only: elsewhere / and - are parts of names.
syntax match ntsOperator /\%(\<\%(SET_EXP\|ASSERT\)\s.*\)\@<=\%(\*\*\|\/\/\|[-+*\/%]\)/
syntax match ntsFunction /\<\%(min\|max\|abs\|round\|floor\|ceil\|log2\|sqrt\)\>\%(\s*(\)\@=/
syntax keyword ntsConstant COUNTER PREV TCP_STREAM TCP_MAERTS TCP_BIDI TCP_RR TCP_CRR TCP_FLOWS TCP_MESSAGES GBN_MESSAGES UDP_STREAM UDP_RR KV_RR

" Commands begin a line, or follow the colon of an IF.
syntax match ntsCommand /\%(\%(^\|:\)\s*\)\@<=\%(SET\|SET_EXP\|DEFAULT\|HOST_SUFFIX\|SOURCE\|RUN\|WAIT
      \\|RAND_WAIT\|OTHER\|PROCESS_EXP\|NEXT_COUNTER\|DEBUG\|DEBUG_DISABLE\|DEBUG_RESTORE
      \\|REQUIRE\|ASSERT\|WAIT_FLOWS\|START_FLOWS\|LAB\)\%(\s\|=\|$\)\@=/
syntax match ntsRemote /\%(\%(^\|:\)\s*\)\@<=\%(DO_SERVER\|DO_CLIENT\|DO_TRACE\|STRESS_LINK\|SHOW_LINK\|GET_DATA\|SET_NETEM
      \\|SET_QDISC\|SET_SYSCTL\|SET_LINK\|SET_ROUTE\|DO_COMMAND\|SET_MODULE_PARAMS\|DO_TCPDUMP
      \\|CLOSE\|EXIT\)\%(\s\|$\)\@=/
syntax match ntsControl /\%(\%(^\|:\|ELSE\)\s*\)\@<=\%(IF\|IF_DEF\)\%(\s\)\@=/
syntax match ntsControl /\%(^\s*\)\@<=\%(FOR\|SWEEP\|ELSE\|DONE\|BEGIN\)\%(\s\|$\)\@=/
syntax match ntsControl /\%(\%(^\|:\)\s*\)\@<=END\%(\s\|$\)\@=/
syntax match ntsControl /\%(\s\)\@1<=DO\%(\s*\%(#.*\)\?$\)\@=/
syntax match ntsControl /\%(^\s*FOR\s\+\w\+\s\+\)\@<=\%(IN\|in\)\%(\s\)\@=/

syntax match ntsMacro /\%(^\s*\%(BEGIN\|END\)\s\+\)\@<=[[:alnum:]_.-]\+/
syntax match ntsMacro /\%(\<RUN\s\+\)\@<=[[:alnum:]_.-]\+/

" What ECHO and DESC show is text, with variables in it.
syntax match ntsText /\%(\%(^\|:\)\s*\)\@<=\%(ECHO\|DESC\)\%(\s.*\|$\)/
      \ contains=ntsTextCommand,ntsVariable,ntsEscape,ntsString,ntsComment
syntax match ntsTextCommand /\%(\%(^\|:\)\s*\)\@<=\%(ECHO\|DESC\)\%(\s\|$\)\@=/ contained

" A backslash continues the line, also with a comment behind it.
syntax match ntsContinuation /\\\%(\s*\%(#.*\)\?$\)\@=/
syntax match ntsComment /#.*$/ contains=ntsTodo
syntax keyword ntsTodo TODO FIXME contained
syntax region ntsComment start=/^\s*BEGIN_COMMENT\>/ end=/^\s*END_COMMENT\>.*$/

highlight default link ntsVariable Identifier
highlight default link ntsEscape SpecialChar
highlight default link ntsString String
highlight default link ntsNumber Number
highlight default link ntsRange Number
highlight default link ntsArgument Type
highlight default link ntsOperator Operator
highlight default link ntsFunction Function
highlight default link ntsConstant Constant
highlight default link ntsCommand Statement
highlight default link ntsTextCommand Statement
highlight default link ntsRemote Function
highlight default link ntsControl Conditional
highlight default link ntsMacro Define
highlight default link ntsContinuation Special
highlight default link ntsComment Comment
highlight default link ntsTodo Todo

let b:current_syntax = 'nts'
