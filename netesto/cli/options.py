"""The command line: every command, its options, an example for each."""

import argparse
from pathlib import Path

from netesto import __version__
from netesto.cli import values
from netesto.cli.parsers import (
    FOLDERS,
    Actions,
    Commands,
    Parser,
    add_action,
    add_command,
    add_flag,
    add_path,
)
from netesto.grounds import GROUNDS
from netesto.model import MAX_ITERATIONS


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = Parser(
        prog="netesto",
        description="Run network experiments: one script, on real hosts or in a lab.",
        epilog="Without a command, a script on standard input is run: netesto < script",
    )
    top.add_argument("--version", action="version", version=f"netesto {__version__}")
    add_flag(top, "--debug", what="show the traceback of an error")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    _run(commands)
    _plan(commands)
    _check(commands)
    _format(commands)
    _report(commands)
    _show(commands)
    _exp(commands)
    _compare(commands)
    _import(commands)
    _summary(commands)
    _packets(commands)
    _lab(commands)
    _trace(commands)
    _kv(commands)
    _kernel(commands)
    _worker(commands)
    _hosts(commands)
    add_command(
        commands,
        "clean",
        "remove what killed runs left on this machine: only what they had recorded as their own",
        "netesto clean",
        "labs.clean",
    )
    agent = add_command(
        commands,
        "agent",
        "run the daemon of a host (the same as netesto-agent)",
        "netesto agent --listen unix:/run/netesto/agent.sock",
    )
    agent.add_argument("arguments", nargs=argparse.REMAINDER, help="see netesto-agent --help")
    return top


# One option per paragraph; the formatter would put each argument on its own line.
# fmt: off
def _run(commands: Commands) -> None:
    run = add_command(commands, "run",
        "run an experiment script",
        "netesto run -D dur=60 scripts/two-flows.nts", "run.run")
    add_path(run, "script", type=str, metavar="SCRIPT",
        help="the script, or its plan; - is standard input")
    _language(run)
    run.add_argument("-n", "--dry-run", nargs="?", const="plain", choices=["plain", "json"],
        metavar="json", help=
        "print every remote command with its arguments, in order, and run nothing; --dry-run=json"
        " or -n=json: one JSON object a line")
    add_path(run, "-o", "--out", complete=FOLDERS, metavar="DIR",
        help="results folder (default results/SCRIPT)")
    run.add_argument("--ground", choices=list(GROUNDS), help=
        "where it runs: namespaces on this machine's kernel, in a user-mode kernel, in simulated"
        " time, or the hosts of --hosts (default: lab if it can do it, else uml)")
    add_path(run, "--kernel", type=str, complete=FOLDERS, metavar="NAME", help=
        "the kernel of uml or sim: a name of 'netesto kernel list', or the source tree it was built"
        " from (default: Debian's)")
    run.add_argument("--ssh", metavar="HOSTS",
        help="real hosts as in --hosts, which get an agent for this run: nothing is installed")
    add_path(run, "--bundle", metavar="FILE",
        help="with --ssh: use no package index, but the packages of this file (see 'hosts bundle')")
    _real_hosts(run)
    _decisive(run)
    _map(run)
    _family(run)
    run.add_argument("--jobs", type=values.count, metavar="N", help=
        "run N cells of a SWEEP, or repetitions of a RUN, side by side, each in a guest of its own"
        " (uml and sim; default in simulated time: as many as this machine has processors)")
    run.add_argument("--on", type=values.nonempty(str), metavar="ADDRESS", help=
        "run them on the workers of a cluster, whose Dask scheduler has this address: tls://HOST,"
        " or 127.0.0.1:PORT; or slurm[:PARTITION], which submits workers on whole nodes (see"
        " docs/scale.md)")
    add_flag(run, "--insecure", what="use a scheduler in a network, without TLS")
    run.add_argument("--budget", type=values.budget, metavar="TIME", help=
        "of a SWEEP with until=: repeat the cells with the widest intervals first, and begin no"
        " repetition that only certainty needs after so much real time, for example 2h")
    add_flag(run, "--resume",
        what="skip the cells of a SWEEP that an earlier run finished in this results folder")
    run.add_argument("--on-failure", default="continue", metavar="WHAT", help=
        "after a failed measurement: continue; stop; or retry=N, which runs the cell of the SWEEP"
        " or the repetition of the RUN again, up to N times (default: continue)")
    run.add_argument("--wait", type=values.wait, metavar="TIME", help=
        "wait for hosts in use, with --wait=5m for at most 5 minutes; without it the run ends at"
        " once and reports who uses them")
    add_flag(run, "--yes",
        what="do not ask before changing settings of real hosts (a run on a terminal asks)")
    add_flag(run, "--force", what="continue even if the paths of the lab are not as requested")
    _commands_file(run)
    run.add_argument("--max-wall", type=values.seconds, metavar="S",
        help="end a run on uml or sim that takes longer than S seconds of real time")
    run.add_argument("--max-stall", type=values.seconds, metavar="S",
        help="on sim, end a program that computes for S seconds and never waits (default: 120)")
    add_flag(run, "--pack",
        what="keep experiments of cells as a file each; netesto report DIR N unpacks and draws one")
    add_flag(run, "--no-pages", what="draw no pages; netesto report DIR draws them at any time")
    add_flag(run, "--plain", what="no live display: a line with its time for each event")
    add_flag(run, "-q", "--quiet", what="only warnings and errors")
    run.add_argument("-v", "--verbose", action="count", default=0, help="log to stderr; -vv: more")


def _decisive(command: argparse.ArgumentParser) -> None:
    """Options that determine a plan, beside those of the language."""
    command.add_argument("--lab", type=values.nonempty(str), metavar="SPEC",
        help="the lab, instead of the script's LAB: dumbbell,rate=10mbit,…")
    command.add_argument("--seed", type=values.whole, metavar="N",
        help="the seed of all random numbers (default: chosen and printed)")
    command.add_argument("--memory", type=values.memory, metavar="SIZE", help=
        "the memory of a guest on uml or sim, such as 4Gi (default: 1Gi, and more for a lab of many"
        " hosts, or of links that hold much)")


def _plan(commands: Commands) -> None:
    plan = add_command(commands, "plan",
        "interpret a script and write its plan, a file that 'netesto run' executes",
        "netesto plan -D dur=60 scripts/two-flows.nts -o two-flows.json", "run.plan")
    add_path(plan, "script", type=str, metavar="SCRIPT", help="the script; - is standard input")
    _language(plan)
    _decisive(plan)
    add_path(plan, "-o", "--output", metavar="FILE", help="the plan (default: standard output)")


def _map(command: argparse.ArgumentParser) -> None:
    command.add_argument("--map", metavar="a=b,…", default="",
        help="names in the script for real hosts, or for those of the lab: kerneltest010=client1,…")


def _family(command: argparse.ArgumentParser) -> None:
    command.add_argument("--family", type=values.whole, choices=[4, 6], default=4,
        help="IP version of the traffic")


def _fields(command: argparse.ArgumentParser, otherwise: str) -> None:
    add_path(command, "--fields", metavar="FILE",
        help=f"the columns of exp.csv, one NAME:OPERATION a line (default: {otherwise})")


def _language(command: argparse.ArgumentParser) -> None:
    _fields(command,
        "fields.txt beside the script, else in the working folder, else the one of netesto")
    command.add_argument("-D", dest="definitions", action="append", default=[],
        metavar="NAME=VALUE",
        help="set a variable before the script begins (it overrides DEFAULT, not SET)")
    add_path(command, "--lib", complete=FOLDERS, dest="libraries", action="append", default=[],
        metavar="DIR",
        help="where SOURCE looks after the script's folder and before the installed libraries")
    command.add_argument("--max-iterations", type=values.count, default=MAX_ITERATIONS, metavar="N",
        help="stop a script that loops more often (default: %(default)s)")


def _real_hosts(command: argparse.ArgumentParser) -> None:
    add_path(command, "--hosts", type=str, metavar="HOSTS", help=
        "real hosts: names that ssh reaches, [USER@]HOST,…; or a TOML file with them, or a CSV file"
        " with a column hostname")


def _commands_file(command: argparse.ArgumentParser) -> None:
    add_path(command, "--commands", metavar="FILE",
        help="in a lab: a TOML file with the [commands] that DO_COMMAND may run, as in agent.toml")


def _check(commands: Commands) -> None:
    check = add_command(commands, "check",
        "report every error that can be found without running; exit status 2 if there is one",
        "netesto check scripts/*.nts", "scripts.check")
    add_path(check, "scripts", nargs="+", metavar="SCRIPT", help="scripts; - is standard input")
    _real_hosts(check)
    _commands_file(check)
    _map(check)
    _language(check)


def _format(commands: Commands) -> None:
    form = add_command(commands, "fmt",
        "print scripts in the standard format", "netesto fmt -w my.nts", "scripts.format_scripts")
    add_path(form, "scripts", nargs="+", metavar="SCRIPT", help="scripts; - is standard input")
    how = form.add_mutually_exclusive_group()
    add_flag(how, "-w", "--write", what="change the files in place")
    add_flag(how, "--check", what="only report scripts not in this format, with exit status 1")


def _report(commands: Commands) -> None:
    report = add_command(commands, "report",
        "rebuild tables and pages from the raw data",
        "netesto report results/two-flows 3", "folders.report")
    _results_folder(report)
    _fields(report, "fields.txt in the results folder")
    report.add_argument(
        "experiments", nargs="*", default=(), type=values.whole, metavar="N", help="only these"
    )


def _results_folder(command: argparse.ArgumentParser) -> None:
    add_path(command, "folder", complete=FOLDERS, metavar="DIR", help="a results folder")


def _show(commands: Commands) -> None:
    show = add_command(commands, "show",
        "show the table of a results folder",
        "netesto show results/two-flows", "folders.show")
    _results_folder(show)
    show.add_argument("experiment", nargs="?", type=values.whole, metavar="N",
        help="only this experiment")


def _exp(commands: Commands) -> None:
    exp = add_command(commands, "exp",
        "run a report script: tables and plots from many experiments, as one page",
        "netesto exp -o report.html figure-8.exp bw=100mbit", "reports.exp")
    add_path(exp, "script", metavar="SCRIPT", help="the report script")
    exp.add_argument(
        "variables", nargs="*", default=(), metavar="k=v", help="variables of the script"
    )
    add_path(exp, "-o", "--out", metavar="FILE", help="the page (default: standard output)")
    add_flag(exp, "--strict", what="treat warnings as errors")
    add_flag(exp, "--explain", what="show how many rows each step leaves")


def _compare(commands: Commands) -> None:
    compare = add_command(commands, "compare",
        "compare two results folders, cell by cell; exit status 0 only if the new one is not worse",
        "netesto compare results/base results/new --threshold 5% -o compare.html",
        "reports.compare")
    add_path(compare, "base", complete=FOLDERS, metavar="BASE",
        help="the results folder to compare with")
    add_path(compare, "new", complete=FOLDERS, metavar="NEW", help="the new results folder")
    compare.add_argument("--metric", dest="measures", nargs="+", default=[], metavar="COLUMN",
        help="measures to judge (default: rate, for request tests meanLatency)")
    compare.add_argument("--by", nargs="+", default=[], metavar="COLUMN",
        help="columns that distinguish experiments (default: all that hold requested values)")
    compare.add_argument("--repeats", nargs="+", default=[], metavar="COLUMN",
        help="columns in which repetitions of an experiment differ, beside rep")
    compare.add_argument("--threshold", type=values.percent, default=5.0, metavar="P%",
        help="differences below this do not matter (default 5%%)")
    add_flag(compare, "--with-invalid", what="count runs that a warning invalidates, too")
    add_flag(compare, "--paired",
        what="the runs of both folders alternated: compare each with that of the same rep")
    add_flag(compare, "--lenient", what="exit status 0 instead of 4 if the runs cannot tell")
    add_path(compare, "-o", "--out", metavar="FILE", help="write the comparison as a page")


def _import(commands: Commands) -> None:
    importing = add_command(commands, "import",
        "import measurements of other tools",
        "netesto import results ubuntu22-6.8 --out results/6.8")
    actions = importing.add_subparsers(dest="action", metavar="ACTION", required=True)
    results = add_action(actions, "results",
        "import a tree of the testing harness, or files of iperf3, netperf and flent",
        "imports.results")
    add_path(results, "paths", nargs="+", metavar="PATH", help="a folder, or files")
    add_path(results, "--out", complete=FOLDERS, required=True, metavar="DIR",
        help="the results folder; runs that it already has are not added again")
    results.add_argument("--name", default="", metavar="PATTERN",
        help="pattern of file names: 'iperf_mtu{mtu}_P{parallel}_{*}.json' fills these columns")
    add_flag(results, "--copy", what="copy raw files (default: hard links where possible)")
    jobs = add_action(actions, "jobs",
        "convert a job file of the testing harness into a script, one macro for each section",
        "imports.jobs")
    add_path(jobs, "file", metavar="FILE.ini", help="the job file")
    add_path(jobs, "--hostlist", metavar="FILE.csv", help="its hosts; run --hosts takes this file")
    add_path(jobs, "-o", "--out", metavar="SCRIPT", help="the script (default: standard output)")
    topology = add_action(actions, "topology",
        "convert a topology of the course CS 145, or a node-link graph, into a topology file",
        "imports.topology")
    add_path(topology, "file", metavar="FILE.json", help="the topology")
    add_path(topology, "-o", "--out", metavar="FILE.toml",
        help="the topology file (default: standard output)")


def _summary(commands: Commands) -> None:
    summary = add_command(commands, "summary",
        "tabulate many runs: throughput and CPU of each test and host, or a row for each run",
        "netesto summary results/6.8 --as harness", "imports.summary")
    _results_folder(summary)
    summary.add_argument("--as", dest="kind",
        choices=["harness", "iperf-lab", "completions", "steady", "stress", "trace"], help=
        "harness: tests and hosts with their CPUs; iperf-lab: a row for each run; completions: how"
        " long transfers took, in µs; steady: throughput without the start and the end of flows;"
        " stress: losses, speed and buffers of STRESS_LINK; trace: flows and requests of DO_TRACE,"
        " as the course CS 145 counts them and as we do"
        " (default: harness or iperf-lab, the one that fits)")
    summary.add_argument("--names", type=values.names, metavar="CASE=NAME,...", help=
        "names of cases (of tests, in harness), which are shown in this order, before all others")
    summary.add_argument("--by", choices=["affected"], help=
        "with --as completions: a table of the transfers that losses affected, one of the others,"
        " one of all")
    summary.add_argument("--skip", type=values.skip, metavar="N", help=
        "with --as steady: leave out N intervals of 1 s at the start and at the end of each flow"
        " (default: 5)")
    summary.add_argument("--pool", choices=["ok", "all"], default="ok", help=
        "mpstat files that count: ok, those of runs that did not fail; all, as in the harness's own"
        " summaries (default: ok)")
    summary.add_argument("-f", "--format", choices=["text", "csv", "json", "html"], default="text",
        help="html: a page with figures (default: text)")
    add_path(summary, "-o", "--out", metavar="FILE", help="the table (default: standard output)")


def _packets(commands: Commands) -> None:
    packets = add_command(commands, "packets",
        "analyse the flows of a capture: RTT, retransmissions, completion, figures",
        "netesto packets trace.pcap.gz -f html -o trace.html", "packets.packets")
    add_path(packets, "files", nargs="+", metavar="FILE", help="pcap or pcapng, also with gzip")
    packets.add_argument("-f", "--format", dest="form", choices=["text", "json", "csv", "html"],
        default="text",
        help="html has figures (default: text)")
    packets.add_argument("--flow", type=values.count, metavar="N",
        help="only the flows of connection N, with all of their values")
    add_path(packets, "-o", "--out", metavar="FILE", help="the analysis (default: standard output)")


def _trace(commands: Commands) -> None:
    trace = add_command(commands, "trace",
        "make and show traces: the requests and flows of hosts, each with its time",
        "netesto trace make workload.json -o trace.txt --seed 1")
    actions = trace.add_subparsers(dest="action", metavar="ACTION", required=True)
    make = add_action(actions, "make", "make a trace from a workload", "traces.make")
    add_path(make, "workload", metavar="WORKLOAD.json", help="the workload")
    add_path(make, "-o", "--out", metavar="FILE", help="the trace (default: standard output)")
    make.add_argument("--seed", type=values.whole, metavar="N",
        help="the seed of all random numbers (default: chosen and printed)")
    make.add_argument("--duplicates", choices=["refuse", "merge"], default="refuse", help=
        "the same key twice in a JSON object: merge joins the arrays of both (default: refuse)")
    show = add_action(actions, "show",
        "show what a trace has: hosts, requests, flows, pairs of hosts", "traces.show")
    add_path(show, "trace", metavar="FILE", help="the trace")
    show.add_argument("-f", "--format", choices=["text", "json"], default="text",
        help="json: one document (default: text)")
    for command in (make, show):
        add_path(command, "--topology", metavar="FILE.toml",
            help="the hosts and their addresses (default: 10.0.0.K is h1, h2, …, hK)")


def _kv(commands: Commands) -> None:
    kv = add_command(commands, "kv",
        "run the key-value store of KV_RR and of traces by itself, until it is interrupted; it"
        " speaks memcached's text protocol",
        "netesto kv --listen 127.0.0.1:11211", "traces.store")
    kv.add_argument("--listen", required=True, metavar="ADDRESS:PORT",
        help="where it listens: everybody who reaches this address can read and change its values")


def _kernel(commands: Commands) -> None:
    kernel = add_command(commands, "kernel",
        "build and list the kernels of the grounds uml and sim",
        "netesto kernel build")
    actions = kernel.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = add_action(actions, "build", "build the kernel for simulated time", "guests.build")
    add_path(build, "--source", complete=FOLDERS, metavar="DIR",
        help="a kernel source tree (default: Debian's)")
    add_action(actions, "list", "list the kernels", "guests.show_list")


def _worker(commands: Commands) -> None:
    worker = add_command(commands, "worker",
        "carry out cells of runs of other machines, for a Dask scheduler",
        "netesto worker tls://HOST:8786", "guests.work")
    worker.add_argument("address", metavar="ADDRESS", help="of the scheduler")
    worker.add_argument("--jobs", type=values.count, metavar="N",
        help="cells at a time (default: as many as this machine has processors, and memory for)")
    worker.add_argument("--port", type=values.port, default=0, metavar="N",
        help="the TCP port on which the worker listens (default: any)")
    add_flag(worker, "--insecure", what="use a scheduler in a network, without TLS")


def _hosts(commands: Commands) -> None:
    hosts = add_command(commands, "hosts",
        "install agents on real hosts, check them, fetch what they have measured",
        "netesto hosts check hosts.toml scripts/rate-tests.nts")
    actions = hosts.add_subparsers(dest="action", metavar="ACTION", required=True)
    _install(actions)
    listed = add_action(actions, "list",
        "list the hosts of a file, their agents and addresses", "hosts.show_list")
    _hosts_of(listed)
    check = add_action(actions, "check",
        "report all problems of all hosts, and what a script needs that they do not have",
        "hosts.check")
    _hosts_of(check)
    add_path(check, "script", type=str, nargs="?", metavar="SCRIPT", help="the script to be run")
    _table_or_json(check)
    _family(check)
    _map(check)
    verified = add_action(actions, "verify",
        "show kernel, tools, offloads, addresses and paths of each host, one per line",
        "hosts.verify")
    _hosts_of(verified)
    _family(verified)
    asked = add_action(actions, "status",
        "show who holds each agent, and which data and settings runs have left there",
        "hosts.status_of")
    _hosts_of(asked)
    _table_or_json(asked)
    fetch = add_action(actions, "fetch",
        "fetch measurements that no run has fetched", "hosts.fetch")
    _hosts_of(fetch)
    add_path(fetch, "--out", complete=FOLDERS, default=Path("results"), metavar="DIR",
        help="into DIR/runs/RUN-unfetched/HOST (default: results)")
    _language(check)


def _hosts_of(command: argparse.ArgumentParser) -> None:
    add_path(command, "hosts", type=str, nargs="?", metavar="HOSTS",
        help="as in --hosts of 'run' (default: hosts.toml)")


def _table_or_json(command: argparse.ArgumentParser) -> None:
    command.add_argument("-f", "--format", choices=["table", "json"], default="table",
        help="json: one document")


def _install(actions: Actions) -> None:
    install = add_action(actions, "install",
        "install or upgrade the agent on hosts that ssh reaches, start it, test it with a flow of"
        " 2 s, and write the hosts file", "installing.install")
    remove = add_action(actions, "remove",
        "remove the agent of a host, and all that its installation brought", "installing.remove")
    for command in (install, remove):
        command.add_argument("names", nargs="*", metavar="HOST",
            help="[user@]HOST, or a host of the file (default: all of the file)")
        add_path(command, "--hosts", metavar="FILE",
            help="the hosts file, or an inventory of Ansible (default: hosts.toml)")
        add_flag(command, "-n", "--dry-run",
            what="examine the hosts, and only show what would be done")
    install.add_argument("--device", default="", metavar="DEV", help=
        "the interface of the traffic, which may carry management, too (default: the one by which"
        " the peers of a run are reached)")
    add_flag(install, "--no-tools", what="install no tools (netperf, iperf3, tcpdump, …)")
    add_flag(install, "--offline",
        what="use no package index: the packages are those of this installation")
    add_path(install, "--bundle", metavar="FILE",
        help="use no package index: also use the packages of this file (see 'bundle')")
    add_flag(remove, "--force", what="also remove measurements that were never fetched")
    bundle = add_action(actions, "bundle",
        "write the packages that agents need into a file, for hosts without a package index",
        "installing.bundle")
    add_path(bundle, "-o", "--output", default=Path("agents.zip"), metavar="FILE",
        help="the bundle (default: agents.zip)")
    bundle.add_argument("--python", dest="pythons", action="append", metavar="3.N",
        type=values.text(r"3\.[1-9][0-9]", "a version of Python; example: 3.12"),
        help="for hosts with this Python; repeatable (default: as here)")
    bundle.add_argument("--arch", dest="machines", action="append", metavar="NAME",
        type=values.text(r"[a-z0-9_]+", "an architecture; example: aarch64"),
        help="for hosts of this architecture, as of uname -m; repeatable (default: as here)")


def _lab_name(command: argparse.ArgumentParser) -> None:
    command.add_argument("--name", metavar="LAB", help="which lab, if several are up")


def _lab(commands: Commands) -> None:
    lab = add_command(commands, "lab",
        "build and use a lab on this machine, apart from any run",
        "netesto lab up dumbbell,rate=10mbit; netesto lab exec client1 ip address")
    actions = lab.add_subparsers(dest="action", metavar="ACTION", required=True)
    up = add_action(actions, "up", "build a lab and leave it up", "labs.bring_up")
    add_path(up, "spec", type=str, metavar="SPEC",
        help="dumbbell,clients=2,rate=10mbit or a TOML file")
    state = add_action(actions, "status",
        "show what is up, with names and addresses", "labs.show_status")
    _lab_name(state)
    execute = add_action(actions, "exec", "run a command on a host of the lab", "labs.execute")
    _lab_name(execute)
    execute.add_argument("host", metavar="HOST",
        help="a host, router or switch; links: where the qdiscs of links with limits are")
    execute.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND",
        help="the command and its arguments")
    path = add_action(actions, "path",
        "show the path of a flow from one host to another (IPv4)", "labs.path")
    _lab_name(path)
    path.add_argument("source", nargs="?", metavar="SOURCE", help="a host")
    path.add_argument("destination", nargs="?", metavar="DESTINATION", help="another host")
    add_flag(path, "--all-pairs", what=
        "instead of a path: how flows of all hosts to all others are divided among the links"
        " between routers")
    path.add_argument("--flows", type=values.count, metavar="N",
        help="with --all-pairs: flows of each pair, of different ports (default: 16)")
    path.add_argument("-f", "--format", choices=["text", "csv"], default="text", help=
        "with --all-pairs: csv has the flows of each direction of a link; text also says how evenly"
        " they are divided (default: text)")
    path.add_argument("--sport", type=values.port, metavar="N",
        help="source port (default: many, with the share of each path)")
    path.add_argument("--dport", type=values.port, default=5201, metavar="N",
        help="destination port (default 5201)")
    add_flag(path, "--udp", what="a flow of UDP instead of TCP")
    cut = add_action(actions, "cut",
        "show the smallest cut of a topology: the links that limit what some nodes can send to"
        " others; it needs no lab", "labs.cut")
    add_path(cut, "spec", type=str, metavar="SPEC", help="as in 'lab up'")
    cut.add_argument("senders", metavar="A,B,…", help="the nodes that send")
    cut.add_argument("receivers", metavar="C,D,…", help="the nodes that receive")
    verify = add_action(actions, "verify",
        "show what each host of a lab has and reaches, one item per line", "labs.verify")
    _lab_name(verify)
    add_path(verify, "spec", type=str, nargs="?", metavar="SPEC",
        help="as in 'lab up' (default: the lab that is up)")
    _family(verify)
    watch = add_action(actions, "watch",
        "show what TCP on each host retransmits, every second, until the lab ends", "labs.watch")
    _lab_name(watch)
    add_flag(watch, "--plain", what="print lines, also on a terminal")
    add_flag(watch, "--links", what="show the links that programs carry, both ends of each")
    watch.add_argument("host", nargs="*", metavar="HOST", help="only these hosts (default: all)")
    down = add_action(actions, "down", "take the lab down", "labs.take_down")
    _lab_name(down)
