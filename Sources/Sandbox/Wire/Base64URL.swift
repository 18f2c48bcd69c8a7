import FoundationEssentials

/// Unpadded base64url (RFC 4648 section 5).
enum Base64URL {
    static func encode(_ bytes: some DataProtocol) -> String {
        var out = ""
        for character in Data(bytes).base64EncodedString() {
            switch character {
            case "+": out.append("-")
            case "/": out.append("_")
            case "=": break
            default: out.append(character)
            }
        }
        return out
    }

    static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var plain = ""
        for character in text {
            switch character {
            case "-": plain.append("+")
            case "_": plain.append("/")
            case "+", "/", "=": return nil
            default: plain.append(character)
            }
        }
        while plain.utf8.count % 4 != 0 { plain.append("=") }
        return Data(base64Encoded: plain).map { Array($0) }
    }
}
