"""`epimem train sft` in a process that has the torchvision of the tests."""

from __future__ import annotations

import sys

from tests.controllers.backends import torchvision_beside

if __name__ == "__main__":
    torchvision_beside.enable()
    from epimem.cli import main

    sys.exit(main(["train", "sft", *sys.argv[1:]]))
