"""The machinery of kernelproof: is a kernel right, and does the model still answer as well?"""
