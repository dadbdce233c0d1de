"""Child processes that end with their parent: left alone they would finish their work for nobody, and wait for ever."""

import os
import threading
from multiprocessing import parent_process
from multiprocessing.process import BaseProcess


def ending_with_parent() -> None:
    """For a pool's workers, as their initializer: a parent that is killed cannot tell them to stop."""
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_until_it_ends, args=(parent,), daemon=True).start()


def _until_it_ends(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)
