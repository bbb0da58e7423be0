"""Questions about files and directories, for a user who may not look everywhere.

The answer is False if the system refuses a name or access, where pathlib may raise.
"""

import os

is_file = os.path.isfile
is_directory = os.path.isdir
