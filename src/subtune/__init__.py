"""Which few parameters of a pretrained encoder are worth fine-tuning?"""

__version__ = "0.1.0"
