"""One bank served to many: the protocol `epimem/1` over HTTP and MCP.

messages     what is said
access       who may say it: tokens, rights, namespaces
operations   what each request does to an opened bank
desk         one bank, its worker threads, and the queue before them
door         what no request gets past: Host, Origin, sizes, token
http, mcp    the two transports
"""
