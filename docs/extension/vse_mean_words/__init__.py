"""An extension of vse-platform: the family `mean_of_words`, its presets, and the task `far_off`."""
