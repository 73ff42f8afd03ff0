"""HTTP in the server: connections, and the dispatch of requests to S3 and the other APIs."""
