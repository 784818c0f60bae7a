//go:build tools

package peer

import _ "golang.zx2c4.com/wireguard"
