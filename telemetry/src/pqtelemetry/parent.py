"""Who started this process, asked before anything else is imported: by then a parent may be gone."""

import os
from typing import Final

PARENT: Final = os.getppid()
