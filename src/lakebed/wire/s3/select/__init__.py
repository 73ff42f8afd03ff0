"""The protocol of SelectObjectContent: the request document and the messages of the response."""
