"""Run every benchmark in this folder, one process each, and close with how many failed."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def main() -> None:
    """One benchmark after the other: never two at once, so that each has the machine to itself."""
    scripts = sorted(path for path in FOLDER.glob("[!_]*.py") if path.name != "run.py")
    failed = []
    for script in scripts:
        print(f"\n== {script.stem}", flush=True)
        if subprocess.run([sys.executable, str(script)], check=False).returncode:
            failed.append(script.stem)
    print(f"\n{len(scripts) - len(failed)} benchmarks ran, failed: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
