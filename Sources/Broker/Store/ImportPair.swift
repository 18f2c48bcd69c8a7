/// The provider's answer to an import, which is kept until the user is known.
///
/// This is its only copy, because the provider has spent the app's token.
package struct ImportPair: Sendable, Equatable {
    /// The key of the exchange.
    package var key: Digest
    /// `StoredTokens`, sealed as `.tokens` for `key`.
    package var tokens: Sealed

    package init(key: Digest, tokens: Sealed) {
        self.key = key
        self.tokens = tokens
    }
}
