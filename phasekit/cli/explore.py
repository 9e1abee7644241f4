"""``phasekit explore``: the page on which one drags P through a phase transition."""

from __future__ import annotations

import functools
import shutil
import webbrowser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer

from phasekit.cli.output import write
from phasekit.errors import InputError


def explore(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Copy the page to this file, and open nothing.")
    ] = None,
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on this machine only, for browsers that refuse files.")
    ] = False,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to serve on (0: any that is free).")] = 0,
    browser: Annotated[bool, typer.Option(help="Whether to open a browser, or only to print the address.")] = True,
) -> None:
    """Open the explorer: minima, branches and phase diagrams that move as one drags P. It needs no network."""
    from phasekit.explorer import PAGE

    if out is not None:
        try:
            shutil.copyfile(PAGE, out)
        except OSError as error:
            raise InputError("out", str(out), f"can't be written: {error.strerror}") from None
        write(f"{out}\n")
        return
    if not serve:
        write(f"{PAGE.as_uri()}\n")
        if browser and not webbrowser.open(PAGE.as_uri()):
            write("No browser was found: open that address in one.\n")
        return
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(PAGE.parent))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise InputError("port", port, f"can't be served on: {error.strerror}") from None
    with server:
        address = f"http://127.0.0.1:{server.server_address[1]}/{PAGE.name}"
        write(f"{address} (Ctrl-C ends it)\n")
        if browser:
            webbrowser.open(address)
        server.serve_forever()
