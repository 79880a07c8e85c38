"""``python -m fedclust.command``."""

from fedclust.command import main

raise SystemExit(main())
