import Crypto

/// Computes SHA-256 digests, in the two notations that the protocols use.
enum Digest256 {
    static func bytes(_ text: String) -> [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }
    static func base64url(of bytes: [UInt8]) -> String { Base64URL.encode(Array(SHA256.hash(data: bytes))) }

    static func base64url(_ text: String) -> String { Base64URL.encode(bytes(text)) }
    static func hex(_ bytes: some Sequence<UInt8>) -> String {
        var out = ""
        for byte in bytes {
            let hex = String(byte, radix: 16)
            out += hex.utf8.count == 1 ? "0" + hex : hex
        }
        return out
    }
}
