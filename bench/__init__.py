"""`horae bench`: starts three nodes, measures them through the doors that users have, and says how fast they are."""
