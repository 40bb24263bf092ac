"""What runs in the virtual environments of other libraries; imports nothing of ours."""
