"""Policies of the catalog: policy types, policies and their versions, attachments, and which policies apply where."""
