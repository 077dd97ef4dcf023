"""The command line: ``enginebench``. Parses, calls the harness, prints; every answer is also there as JSON.

Exit codes: 0 done, 1 a row failed (or is wrong, or took too long), 2 a usage error, 70 a defect of the engine, 130
interrupted.
"""

from __future__ import annotations

import shlex
import sys
import traceback
from collections.abc import Sequence

from engine.errors import EngineError, InternalError

EXIT_USAGE = 2
EXIT_DEFECT = 70  # EX_SOFTWARE of <sysexits.h>
EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    A user's mistake is one message on standard error; a defect of the engine is a traceback there.
    """
    from suites.cli.app import app
    from suites.harness.run.runner import Interrupted

    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        app(args=given, prog_name="enginebench")
    except InternalError:
        traceback.print_exc()
        sys.exit(EXIT_DEFECT)
    except EngineError as error:
        print(f"enginebench: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE)
    except Interrupted as stop:
        again = shlex.join([*given, *([] if "--resume" in given else ["--resume"])])
        print(f"interrupted; stored so far: {stop.path}\nto continue: enginebench {again}", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
