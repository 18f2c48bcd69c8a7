/// The statements for step-ups and presence keys.
enum StepUpSQL {
    /// Reads the columns for judging a step-up's commit.
    static let steppingUp = """
        SELECT format, ended_at, token_version, version FROM sessions WHERE token = ?
        """
    /// Stores a step-up; `?3` is 1 if it begins a new grant, and otherwise 0.
    ///
    /// A new grant raises the token version and the fence, and clears the refresh marks of the old grant.
    static let stepUp = """
        UPDATE sessions SET version = version + 1, token_version = token_version + ?3, fence = fence + ?3,
            grant_version = CASE ?3 WHEN 1 THEN token_version + 1 ELSE grant_version END,
            claim = CASE ?3 WHEN 1 THEN NULL ELSE claim END,
            claim_until = CASE ?3 WHEN 1 THEN NULL ELSE claim_until END,
            taken_over_at = CASE ?3 WHEN 1 THEN NULL ELSE taken_over_at END,
            taken_over_before = CASE ?3 WHEN 1 THEN 0 ELSE taken_over_before END,
            answer_lost = CASE ?3 WHEN 1 THEN 0 ELSE answer_lost END,
            hold_until = CASE ?3 WHEN 1 THEN NULL ELSE hold_until END,
            hold_for = CASE ?3 WHEN 1 THEN NULL ELSE hold_for END,
            empty_refusals = CASE ?3 WHEN 1 THEN 0 ELSE empty_refusals END,
            first_empty_at = CASE ?3 WHEN 1 THEN NULL ELSE first_empty_at END,
            subject_unchecked = CASE ?3 WHEN 1 THEN 0 ELSE subject_unchecked END,
            tokens_key = ?4, tokens = ?5, facts_key = ?6, facts = ?7, sid = ?8, token_expires_at = ?9, refreshable = ?10,
            last_used_at = max(last_used_at, ?11), idle_expires_at = max(idle_expires_at, ?12)
        WHERE token = ?1 AND token_version = ?2 AND ended_at IS NULL AND format = 1
        """
    /// Stores a presence key if the session has none.
    ///
    /// Values: the row's key, the ring's key, the envelope, and the amount that is added to the version.
    static let registerPresence = """
        UPDATE sessions SET presence_key = ?2, presence = ?3, version = version + ?4
        WHERE token = ?1 AND ended_at IS NULL AND parent IS NULL AND presence IS NULL AND format = 1
        """
    static let standingPresence = """
        SELECT format, ended_at IS NOT NULL OR parent IS NOT NULL, presence_key, presence FROM sessions WHERE token = ?
        """
    /// Finds an exchange that still has its claim.
    static let owned = "SELECT 1 FROM exchanges WHERE key = ? AND fence = ? AND outcome = 0 AND format = 1"
    /// Deletes a session's tokens for other APIs, for a step-up that keeps the grant.
    ///
    /// For a new grant the trigger deletes the rows.
    static let dropTargetTokens = "DELETE FROM audience_tokens WHERE session = ?"
}
