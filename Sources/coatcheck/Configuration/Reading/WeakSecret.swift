/// Recognises weak secrets: short texts, texts of few different characters, and placeholders (SEC-109).
enum WeakSecret {
    /// The words of placeholders.
    ///
    /// A secret counts as a placeholder if fewer than 8 letters and digits remain after these words are removed.
    private static let words = [
        "placeholder", "changeit", "changeme", "credential", "password", "passwort", "example", "replace", "default",
        "coatcheck", "client", "secret", "sample", "change", "insert", "token", "dummy", "admin", "super", "value",
        "here", "this", "your", "test", "todo", "fake", "real", "with", "some", "the", "key", "not", "abc", "xxx",
        "123", "456",
        "789", "top", "my", "me", "id", "a",
    ]

    /// Returns the reason why a secret is too weak; nil if it is strong enough.
    static func fault(of secret: String) -> String? {
        if secret.utf8.count < 16 { return "is too short: a secret has at least 16 characters" }
        if Set(secret.utf8).count < 6 { return "is too simple: it has hardly any different characters" }
        var rest = secret.lowercased().filter { $0.isASCII && ($0.isLetter || $0.isNumber) }
        if secret.hasPrefix("<"), secret.hasSuffix(">") { return "looks like a placeholder" }
        for word in words { rest = remove(word, from: rest) }
        return rest.utf8.count < 8 ? "looks like a placeholder" : nil
    }

    /// Returns whether a hexadecimal SHA-256 belongs to a commonly guessed word.
    ///
    /// The configuration contains only the digests of credentials, so this list contains digests too. Its words are the empty
    /// text, test, foo, admin, secret, password, changeme and coatcheck.
    static func isDigestOfWeak(_ hexadecimal: String) -> Bool { digests.contains(hexadecimal.lowercased()) }

    private static let digests: Set<String> = [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
        "8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918",
        "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
        "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8",
        "057ba03d6c44104863dc7361fe4578965d1887360f90a0895882e58a6248fc86",
        "0a0231460b2c43a63199fde9f435b1072e44dd8997e2b3585c06dec7e391bcf9",
    ]

    private static func remove(_ word: String, from text: String) -> String {
        let (pattern, bytes) = (Array(word.utf8), Array(text.utf8))
        var kept: [UInt8] = []
        var index = 0
        while index < bytes.count {
            if bytes[index...].starts(with: pattern) {
                index += pattern.count
            } else {
                kept.append(bytes[index])
                index += 1
            }
        }
        return String(decoding: kept, as: UTF8.self)
    }
}
