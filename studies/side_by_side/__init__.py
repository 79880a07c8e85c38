"""Side by side: all algorithms and trust models on the same data, and what others use today."""
