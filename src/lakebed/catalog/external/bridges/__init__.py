"""Links to tables of other catalogs: this catalog follows where they go, on an operator's word or by asking.

The other catalog is followed and never led: what was committed here since the last look is not given up for it. Then
the pointer stays, the conflict is recorded, and somebody decides.
"""
