"""The one exception that means "the input is wrong", as opposed to "the program is wrong"."""


class InputError(ValueError):
    """A request that cannot be served; its text is one line naming the file, field or key and what would be right.

    Jobs print the text on stderr and exit with status 2.
    """
