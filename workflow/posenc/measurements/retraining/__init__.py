"""What is a mask in place of rotation worth, in training tokens (F6)?"""
