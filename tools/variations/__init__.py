"""Every notebook with other settings: does it run through, and which of its checks still hold?"""
