"""`pqlab setup`: an inventory of your own hosts from a few answers, and whether these hosts will do.

Reading order: answers (what is asked, and what an answer may be) → inventory (the file that they become, and
what was there before) → hosts (one look at each host by ssh) → findings (what is amiss, with the next
command). Nothing on a host is changed.
"""
