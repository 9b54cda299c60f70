"""Carries plans out on Kubernetes: pure modules render and compare what should be, the others read and write."""
