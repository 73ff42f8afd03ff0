"""The pipeline under faults: killed and suspended workers, and writers during maintenance."""
