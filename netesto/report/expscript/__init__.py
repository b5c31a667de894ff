"""The language of report scripts: from exp.csv and a script to one page with tables and plots.

The classic command line and the new one differ only in how they name the script:

    Runner().run_words(["--file=bbr.exp,bw=100mbit", "doTable"])
    Runner(out=Path("bbr.html")).run_script(Path("bbr.exp"), {"bw": "100mbit"})
"""

from netesto.report.expscript.runner import Report, Runner

__all__ = ["Report", "Runner"]
