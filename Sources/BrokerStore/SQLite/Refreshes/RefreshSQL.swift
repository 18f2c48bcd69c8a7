/// The statements for refreshes.
enum RefreshSQL {
    /// Reads the columns for judging a claim, for example the token version, the refresh marks and the times of the session's
    /// end.
    static let marks = NamedSQL("SELECT \(markColumns) FROM sessions WHERE token = :token")
    static let markColumns = """
        format, token_version, fence, claim, claim_until, claim_epoch, taken_over_at, taken_over_before, \
        answer_lost, hold_until, hold_for, empty_refusals, first_empty_at, ended_at, idle_expires_at, expires_at
        """
    static let mark = NamedSQL(
        """
        UPDATE sessions SET fence = :fence, claim = :claim, claim_until = :claim_until, claim_epoch = :claim_epoch,
            taken_over_at = :taken_over_at, taken_over_before = :taken_over_before, answer_lost = :answer_lost,
            hold_until = :hold_until, empty_refusals = :empty_refusals, first_empty_at = :first_empty_at,
            hold_for = :hold_for
        WHERE token = :token AND ended_at IS NULL AND format = 1
        """)
    static let renew = NamedSQL(
        """
        UPDATE sessions SET claim_until = :claim_until
        WHERE token = :token AND fence = :fence AND claim_epoch = :claim_epoch AND claim_until IS NOT NULL
            AND ended_at IS NULL AND format = 1
        """)
    static let commit = NamedSQL(
        """
        UPDATE sessions SET token_version = token_version + 1, claim = NULL, claim_until = NULL,
            taken_over_before = (taken_over_at IS NOT NULL OR answer_lost <> 0 OR :answer_lost), taken_over_at = NULL,
            answer_lost = 0, hold_until = NULL, empty_refusals = 0, first_empty_at = NULL,
            subject_unchecked = :subject_unchecked, tokens_key = :tokens_key, tokens = :tokens,
            facts_key = CASE WHEN :facts_key IS NOT NULL AND facts = coalesce(:former_facts, facts)
                THEN :facts_key ELSE facts_key END,
            facts = CASE WHEN :facts IS NOT NULL AND facts = coalesce(:former_facts, facts) THEN :facts ELSE facts END,
            token_expires_at = :token_expires_at, refreshable = :refreshable, expires_at = coalesce(:expires_at, expires_at)
        WHERE token = :token AND token_version = :token_version AND ended_at IS NULL AND format = 1
            AND (:former_tokens IS NULL OR tokens = :former_tokens)
        """)
    static let standing = NamedSQL(
        "SELECT format, ended_at, grant_version, token_version FROM sessions WHERE token = :token")
    static let subjectChecked = NamedSQL(
        """
        UPDATE sessions SET subject_unchecked = 0
        WHERE token = :token AND token_version = :token_version AND ended_at IS NULL AND format = 1
        """)
    static let condemnable = NamedSQL(
        """
        SELECT id, token FROM sessions
        WHERE token = :token AND token_version = :token_version AND fence = :fence AND ended_at IS NULL
        """)
}
