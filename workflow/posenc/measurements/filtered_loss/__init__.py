"""What is lost when queries and keys keep one band of frequencies, or lose it (C1, C2)?"""
