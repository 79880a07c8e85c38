"""Tests and numbers where indices have 32 bits: Python compiled to WebAssembly, in node."""
