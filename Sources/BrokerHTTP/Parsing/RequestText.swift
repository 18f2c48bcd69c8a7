import Broker

/// Checks the texts in requests against the alphabets that openapi.yaml defines.
enum RequestText {
    /// Returns the fault in a text, or nil.
    static func fault(
        in text: String, length: ClosedRange<Int>, where allows: (Unicode.Scalar) -> Bool
    ) -> FieldFault.Code? {
        // A character has at most four bytes, so this bounds the work for an endless text.
        guard text.utf8.count <= length.upperBound * 4 else { return .tooLong }
        let count = text.unicodeScalars.count
        guard count <= length.upperBound else { return .tooLong }
        guard count >= length.lowerBound else { return .tooShort }
        return text.unicodeScalars.allSatisfy(allows) ? nil : .malformed
    }

    /// Returns whether the character is printable, which excludes control characters.
    static func isPrintable(_ scalar: Unicode.Scalar) -> Bool { scalar.value >= 0x20 && scalar.value != 0x7F }

    /// Returns whether the character is visible ASCII.
    static func isVisible(_ scalar: Unicode.Scalar) -> Bool { (0x21...0x7E).contains(scalar.value) }

    /// Returns whether the character is visible ASCII or a space.
    static func isASCIIText(_ scalar: Unicode.Scalar) -> Bool { (0x20...0x7E).contains(scalar.value) }

    /// Returns whether the character belongs to base64url's alphabet.
    static func isBase64URL(_ scalar: Unicode.Scalar) -> Bool {
        isAlphanumeric(scalar) || scalar == "-" || scalar == "_"
    }

    /// Returns whether the character belongs to RFC 7636's alphabet for verifiers.
    static func isVerifier(_ scalar: Unicode.Scalar) -> Bool {
        isBase64URL(scalar) || scalar == "." || scalar == "~"
    }

    /// Returns whether the character is allowed in a child session's name.
    static func isPlaceName(_ scalar: Unicode.Scalar) -> Bool {
        ("a"..."z").contains(scalar) || ("0"..."9").contains(scalar) || scalar == "-"
    }

    /// Returns whether the character is allowed in the name of a parameter or an attribute.
    static func isNamePart(_ scalar: Unicode.Scalar) -> Bool { isBase64URL(scalar) || scalar == "." }

    /// Returns whether the character is a letter or digit of ASCII.
    static func isAlphanumeric(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
        default: false
        }
    }

    /// Returns whether the character is allowed in a scope list, or separates its words (RFC 6749 section 3.3).
    static func isScopeList(_ scalar: Unicode.Scalar) -> Bool {
        isASCIIText(scalar) && scalar != "\"" && scalar != "\\"
    }
}
