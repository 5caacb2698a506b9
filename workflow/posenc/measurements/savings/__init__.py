"""What would a model without positions save: parameters, memory, and caches that can be shared?"""
