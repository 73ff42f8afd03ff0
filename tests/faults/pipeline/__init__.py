"""The pipeline under faults: workers that are killed or sleep at any point of a job, and writers beside maintenance."""
