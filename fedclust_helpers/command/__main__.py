"""``python -m fedclust_helpers.command``."""

from fedclust_helpers.command import main

raise SystemExit(main())
