extension Contract {
    /// Returns the contract with this broker's address as the first of its `servers`, so that what is generated from it
    /// calls this broker.
    static func served(at publicURL: String) -> [UInt8] {
        Array(
            text.replacing("- url: https://auth.example.com\n", with: "- url: '\(publicURL)'\n", maxReplacements: 1)
                .utf8)
    }
}
