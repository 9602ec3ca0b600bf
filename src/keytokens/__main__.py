"""`python -m keytokens` is the command line."""

from keytokens.cli import main

if __name__ == "__main__":
    main()
