-- Grants on namespaces are looked up by catalog and path: whoever asks knows these, and not the id. The column beside it
-- still ties the row to the one namespace that it was given on.
UPDATE grants
    SET securable = (SELECT 'namespace ' || n.warehouse || ' ' || n.path FROM namespaces n WHERE n.id = grants.namespace)
    WHERE namespace IS NOT NULL;
UPDATE role_changes SET number = number + 1 WHERE EXISTS (SELECT 1 FROM grants WHERE namespace IS NOT NULL);
