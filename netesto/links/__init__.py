"""What a link of a lab is (settings), and what tc makes of it (made): the same for the lab that
builds a link and for the agent that changes it."""
