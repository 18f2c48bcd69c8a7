/// The statements for refreshes.
enum RefreshSQL {
    /// Reads the columns for judging a claim, for example the token version, the refresh marks and the times of the session's
    /// end.
    static let marks = "SELECT \(markColumns) FROM sessions WHERE token = ?"
    static let markColumns = """
        format, token_version, fence, claim, claim_until, claim_epoch, taken_over_at, taken_over_before, \
        answer_lost, hold_until, hold_for, empty_refusals, first_empty_at, ended_at, idle_expires_at, expires_at
        """
    static let mark = """
        UPDATE sessions SET fence = ?2, claim = ?3, claim_until = ?4, claim_epoch = ?5, taken_over_at = ?6,
            taken_over_before = ?7, answer_lost = ?8, hold_until = ?9, empty_refusals = ?10, first_empty_at = ?11,
            hold_for = ?12
        WHERE token = ?1 AND ended_at IS NULL AND format = 1
        """
    static let renew = """
        UPDATE sessions SET claim_until = ?1
        WHERE token = ?2 AND fence = ?3 AND claim_epoch = ?4 AND claim_until IS NOT NULL AND ended_at IS NULL
            AND format = 1
        """
    static let commit = """
        UPDATE sessions SET token_version = token_version + 1, claim = NULL, claim_until = NULL,
            taken_over_before = (taken_over_at IS NOT NULL OR answer_lost <> 0 OR ?1), taken_over_at = NULL,
            answer_lost = 0, hold_until = NULL, empty_refusals = 0, first_empty_at = NULL, subject_unchecked = ?2,
            tokens_key = ?3, tokens = ?4,
            facts_key = CASE WHEN ?5 IS NOT NULL AND facts = coalesce(?12, facts) THEN ?5 ELSE facts_key END,
            facts = CASE WHEN ?6 IS NOT NULL AND facts = coalesce(?12, facts) THEN ?6 ELSE facts END,
            token_expires_at = ?7, refreshable = ?8, expires_at = coalesce(?9, expires_at)
        WHERE token = ?10 AND token_version = ?11 AND ended_at IS NULL AND format = 1 AND (?13 IS NULL OR tokens = ?13)
        """
    static let standing = "SELECT format, ended_at, grant_version, token_version FROM sessions WHERE token = ?"
    static let subjectChecked = """
        UPDATE sessions SET subject_unchecked = 0
        WHERE token = ? AND token_version = ? AND ended_at IS NULL AND format = 1
        """
    static let condemnable = """
        SELECT id, token FROM sessions
        WHERE token = ? AND token_version = ? AND fence = ? AND ended_at IS NULL
        """
}
