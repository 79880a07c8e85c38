"""What people use today, on our data: rival libraries in environments of their own, and ours."""
