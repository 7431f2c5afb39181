"""Measures a sweep in several processes: jobs of Slurm, tasks of Ray, or one process per GPU."""
