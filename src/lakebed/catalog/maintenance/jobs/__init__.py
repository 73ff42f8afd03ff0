"""Maintenance jobs of the S3-Tables-style routes: configuration, removal of unreferenced files, quarantine, reports.

A job that is queued or running holds a task of the task queue, by table: its lease and its heartbeats are the task's.
"""
