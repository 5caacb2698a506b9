"""Which heads of a rotary model need their rotation (F5)?"""
