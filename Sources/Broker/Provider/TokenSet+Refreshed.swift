extension TokenSet {
    /// Returns this set with a refresh's answer laid over it: what the answer leaves out stays, the scope may shrink and
    /// never grows (SEC-57), and the id_token of the login stays.
    package func refreshed(with answer: TokenSet) -> TokenSet {
        var set = self
        set.accessToken = answer.accessToken
        set.expiresAt = answer.expiresAt
        if let refreshToken = answer.refreshToken {
            set.refreshToken = refreshToken
            set.refreshExpiresAt = answer.refreshExpiresAt
        }
        if let granted = answer.scope {
            set.scope = scope.map { before in granted.filter(before.contains) } ?? granted
        }
        return set
    }
}
