"""params.yaml as a whole: its jobs, both front ends agreeing about them, recovery."""
