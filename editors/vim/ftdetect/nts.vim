" Scripts and macro libraries of Netesto.
autocmd BufNewFile,BufRead *.nts,inlib,inlib.* setfiletype nts
