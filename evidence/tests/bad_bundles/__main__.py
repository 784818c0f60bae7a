"""Write the whole corpus: python -m bad_bundles GOOD OUT."""

import shutil
import sys
from pathlib import Path

from bad_bundles import corpus

good, out = Path(sys.argv[1]), Path(sys.argv[2])
for bad in corpus():
    target = out / bad.name
    shutil.copytree(good, target)
    bad.spoil(target)
    print(f"{bad.name}: {bad.check}: {bad.why}")
